"""How a run went: figures of the whole run over its rounds, in one file that stays small however long the run is."""
