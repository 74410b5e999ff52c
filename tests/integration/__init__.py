"""Tests of services on real servers."""
