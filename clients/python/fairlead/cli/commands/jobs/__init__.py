"""Commands that submit jobs, follow them and change them."""
