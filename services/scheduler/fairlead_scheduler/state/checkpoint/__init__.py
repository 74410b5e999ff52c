"""The checkpoint of the view: what is saved, in which form, and loading it again. Pure."""
