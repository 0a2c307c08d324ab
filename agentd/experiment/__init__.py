"""The paper's figures: repetitions, their results on disk, many processes, the bounds beside them."""
