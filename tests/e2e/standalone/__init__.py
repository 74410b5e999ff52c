"""Tests of `fairlead up`."""
