"""One recipe per paper: its published tables and figures compared with ours."""
