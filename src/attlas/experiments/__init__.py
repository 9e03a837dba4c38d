"""What is made of passes: experiments, their result folders and caches."""
