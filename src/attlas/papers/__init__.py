"""One recipe a paper: its tables and figures, published beside ours."""
