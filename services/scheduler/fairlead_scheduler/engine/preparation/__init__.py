"""What a round needs before its scheduling pass: checks, totals, shares, order."""
