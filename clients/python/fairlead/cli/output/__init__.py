"""How commands print: formats of lists and objects, texts, histories, differences."""
