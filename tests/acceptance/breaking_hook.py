"""A hook that raises at some pages. Its module breaks an extractor at others: for nodes alone."""

from unittest.mock import patch

from crawler_node.extraction import document, extract
from crawler_node.fetching.fetch import ExtractSettings, FetchResult
from crawler_node.output.hook import HookPage

HOOK_RAISES = ("/page/0", "/page/1", "/page/2", "/page/3")
EXTRACTOR_BREAKS = ("/page/4", "/page/5")


def page(page: HookPage) -> None:
    """Raises an error."""
    if page.url.endswith(HOOK_RAISES):
        raise LookupError("the hook is broken")


class _Document(document.Document):
    def __init__(
        self, fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool
    ) -> None:
        if fetch.uri.endswith(EXTRACTOR_BREAKS):
            raise LookupError("the document is broken")
        super().__init__(fetch, settings, product_token, is_listed)


patch.object(extract, "Document", _Document).start()
