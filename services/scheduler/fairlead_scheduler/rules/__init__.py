"""What the scheduler decides outside of a round: leases, retries, deadlines, groups, arrays. Pure.

The numbered rules of docs/rules.md, such as N4, are in `engine`, except the rules of groups (C).
"""
