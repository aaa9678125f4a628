"""A hook that raises at some pages. Its module breaks extractors at others: only a node should import it."""

from unittest.mock import patch

from crawler_node.extraction import document, extract, header_links
from crawler_node.extraction.links import Reference
from crawler_node.fetching.fetch import ExtractSettings, FetchResult
from crawler_node.output.hook import HookPage


def page(page: HookPage) -> None:
    """Raises an error."""
    if page.url.endswith("/hook-raises"):
        raise LookupError("the hook is broken")


def _references(fetch: FetchResult, obey_nofollow: bool) -> list[Reference]:
    if fetch.uri.endswith("/headers-break"):
        raise LookupError("an extractor is broken")
    return list(header_links.header_references(fetch, obey_nofollow))


class _Document(document.Document):
    def __init__(
        self, fetch: FetchResult, settings: ExtractSettings, product_token: str, is_listed: bool
    ) -> None:
        if fetch.uri.endswith("/document-breaks"):
            raise LookupError("the document is broken")
        super().__init__(fetch, settings, product_token, is_listed)


patch.object(extract, "header_references", _references).start()
patch.object(extract, "Document", _Document).start()
