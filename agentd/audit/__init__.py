"""The privacy audit: many runs on two inputs that differ in one reward, and what telling them apart proves about ε."""
