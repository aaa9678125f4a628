"""Runs Scrapy's command line without the network.

Scrapy's cookies need the public suffixes, and would fetch the newest list at first use. Here they take the
list that comes with their library.
"""

from scrapy.cmdline import execute
from scrapy.downloadermiddlewares import cookies
from tldextract import TLDExtract

cookies._split_domain = TLDExtract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
execute()
