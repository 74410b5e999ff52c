"""Tests of what deploys Fairlead."""
