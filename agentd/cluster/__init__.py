"""Work on a Dask cluster: where it may be, what is sent there, and what is believed of what comes back."""
