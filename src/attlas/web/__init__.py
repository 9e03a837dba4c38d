"""The server: studies, texts and models in a browser."""
