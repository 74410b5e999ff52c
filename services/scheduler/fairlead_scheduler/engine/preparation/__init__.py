"""What a round computes before its scheduling pass: checks, totals, shares, orders, the model."""
