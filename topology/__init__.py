"""Graphs: families, measures, files and pictures. Imports nothing of agentd."""
