"""The exact test: one reward is another, one batch's noise is shifted by the difference, and nothing can be seen of it.

Statistics can refute a claim; they never show that it holds. This can: where the shifted noise is all that differs, a
transcript is at most e^ε times less likely for one input than for the other, by the ratio of two noise densities. That
the sampler has these densities is tested apart from it (`audit.sampler`).
"""
