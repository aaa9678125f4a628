"""A site whose pages want the cookies that it set before, and are refused without."""

import threading
from collections import Counter
from collections.abc import Callable
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Request:
    """A request, and the answer that its rule gives."""

    def __init__(self, number: int, host: str, path: str, agent: str, cookies: dict[str, str]) -> None:
        self.number = number
        """How many pages were asked for before."""
        self.host = host
        self.path = path
        self.agent = agent
        self.cookies = cookies
        self.sets: list[str] = []
        """Set-Cookie headers of the answer."""
        self.status = 302
        self.location = ""
        """Where the answer redirects to, with `status`."""
        self.refresh = ""
        """Where the page has browsers go, by a `<meta>`."""


Rule = Callable[[Request], bool]
"""Whether a request gets its page; it may set cookies."""


class SessionSite(ThreadingHTTPServer):
    """Answers `/` with links to pages, each by a rule: 200, 403, or a redirect. It has no robots.txt.

    All its names share the answers. `asked` has how often each path was asked for, and `refused` the paths
    that were answered with 403.
    """

    daemon_threads = True

    def __init__(self, rule: Rule, pages: int) -> None:
        self.rule = rule
        self.page = "".join(f'<a href="/page/{n}">{n}</a> ' for n in range(pages)).encode()
        self.asked: Counter[str] = Counter()
        self.refused: list[str] = []
        self.when_asked: Callable[[int], None] = lambda number: None
        """What to do before the answer to a request, by the number of pages before."""
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def url(self) -> str:
        """The URL of the page with the links."""
        return self.at()

    def at(self, host: str = "127.0.0.1", path: str = "/") -> str:
        """The URL of a path under one of its names."""
        return f"http://{host}:{self.server_port}{path}"


class _Answers(BaseHTTPRequestHandler):
    server: SessionSite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site = self.server
        status, request = 404, None
        if self.path != "/robots.txt":
            sent = SimpleCookie(self.headers.get("Cookie", ""))
            cookies = {name: each.value for name, each in sent.items()}
            with site.lock:
                host, agent = self.headers["Host"].partition(":")[0], self.headers["User-Agent"]
                request = Request(site.asked.total(), host, self.path, agent, cookies)
                site.asked[self.path] += 1
                status = 200 if site.rule(request) else 403
                if status == 403:
                    site.refused.append(self.path)
            site.when_asked(request.number)
        body = site.page if self.path == "/" else self.path.encode()
        if request is not None and request.location:
            status = request.status
        self.send_response(status)
        if request is not None:
            for line in request.sets:
                self.send_header("Set-Cookie", line)
            if request.location:
                self.send_header("Location", request.location)
            if request.refresh:
                body = f'<meta http-equiv="refresh" content="0; url={request.refresh}">'.encode()
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""
