"""Jobs, from requests to events: their submission, templates and terms, and actions on them."""
