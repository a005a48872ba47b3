import logging
import sys

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
log = logging.getLogger(__name__)
log.info("started with %s", sys.version_info[:2])
