"""Graphs: families, measures, files and pictures. Imports nothing of agentd.

::

    validation.py  TopologyError, and the checks every part shares
    graph.py       Graph
    generate.py    one function per family, over the random edge sets of random_edges.py
    measure.py     hop counts, diameter, balls, power graphs, clique covers
    graph_files.py read and write, over edge_list.py, node_link.py and graphml.py
    picture.py     a graph as SVG, over placement.py
    cli.py         `agentd topology generate|measure`
"""
