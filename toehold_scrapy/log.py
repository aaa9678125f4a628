"""What a spider's log says of its frontier."""

import logging

from toehold_client import ToeholdError
from toehold_client.worker.contact import ContactLog

logger = logging.getLogger("toehold_scrapy")


class SpiderLog(ContactLog):
    """Sentences about the frontier for those who read the log of a spider."""

    def lost(self, error: ToeholdError) -> None:
        logger.warning("%s; trying until the frontier answers", error)

    def back(self, silent_s: float) -> None:
        logger.info("The frontier answers again, after %.1f s", silent_s)

    def denied(self, error: ToeholdError) -> None:
        logger.error("%s; keeping all work, and trying until the frontier allows it", error)

    def allowed(self) -> None:
        logger.info("The frontier lets this spider call again")

    def busy(self, error: ToeholdError) -> None:
        logger.warning("%s; trying until the frontier takes it", error)

    def failed(self, error: ToeholdError) -> None:
        logger.warning("%s; trying again", error)
