"""The paper's figures: trials, their results on disk, many processes, the bounds beside them."""
