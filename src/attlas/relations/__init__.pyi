from .extractor import RelationExtractor as RelationExtractor
