"""The schema `fairlead_submit` in Postgres, and the views of lookout that submit reads."""
