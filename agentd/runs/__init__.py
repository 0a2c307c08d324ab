"""What a run is: what it is given, where it leaves what, how it is told."""
