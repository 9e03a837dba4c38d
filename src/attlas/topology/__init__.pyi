from .barcode import barcode as barcode, rips_features as rips_features
from .betti import betti as betti
from .classifier import TopologyClassifier as TopologyClassifier
from .directed import digraph as digraph
from .features import TopologyFeatures as TopologyFeatures
from .graph_page import AttentionGraph as AttentionGraph, attention_graph as attention_graph
from .heads import best_heads as best_heads, likeness as likeness, score_heads as score_heads
from .templates import template_distances as template_distances
