"""Tests of a whole Fairlead."""
