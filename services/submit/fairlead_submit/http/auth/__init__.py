"""Calls for tokens and sign-in, and the steps of signing in with an OpenID provider."""
