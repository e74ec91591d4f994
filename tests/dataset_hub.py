"""A Hub of one dataset on this machine, which counts what it gives and can fail."""

import gzip
import http.server
import json
import re
import threading
from contextlib import contextmanager

from tests.optional import need

__all__ = ["COMMIT", "ROWS", "Server", "document", "point", "sentences", "serve", "write", "write_rows"]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = 3000


def document(language, number):
    # Long and without a pattern, so that the file does not shrink to nothing.
    end = "".join(chr(97 + (number * 7 + i * i) % 26) for i in range(900))
    return f"  {language} {number} first\n\n{language} {number} {end}"


def sentences(language, count):
    lines = (line for n in range(ROWS) for line in document(language, n).strip().split("\n") if line)
    return [line for line, _ in zip(lines, range(count), strict=False)]


def write(folder, name, documents, rows=500, **columns):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = need("pyarrow").table({**columns, "text": list(documents)})
    form = {"compression": "none", "use_dictionary": False, "data_page_size": 1 << 16, "write_batch_size": 64}
    need("pyarrow.parquet").write_table(table, path, row_group_size=rows, **form)
    return path


def write_rows(folder, name, rows):
    """Writes rows as lines of text, fields between tabs, JSON lines or parquet, compressed where the name says so."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        need("pyarrow.parquet").write_table(need("pyarrow").Table.from_pylist(rows), path)
        return path
    plain = ("\t".join(map(str, row)) if isinstance(row, (list, tuple)) else row for row in rows)
    lines = (json.dumps(row, ensure_ascii=False) if isinstance(row, dict) else row for row in plain)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


class Server(http.server.BaseHTTPRequestHandler):
    """A Hub of one dataset, that counts the bytes it gives; or one that fails."""

    def do_GET(self):
        server, path = self.server, self.path.split("?")[0]
        if "/datasets/" in path:  # the client also asks, once a day, for things that are no dataset's
            server.asked.append(path)
        file = path.partition(f"/datasets/{server.id}/resolve/{COMMIT}/")[2]
        later = server.fails == "later" and self.headers["range"] != "bytes=0-3"
        if server.fails == "all" or (file and (server.fails == "files" or later)):
            return self.answer(503, b"")
        if file:
            data = (server.folder / file).read_bytes()
            first, last = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["range"]).groups()
            part = data[int(first) : int(last) + 1]
            server.bytes += len(part)
            return self.answer(206, part, Content_Range=f"bytes {first}-{last}/{len(data)}", X_Repo_Commit=COMMIT)
        found = [path for path in sorted(server.folder.rglob("*")) if path.is_file()]
        names = {path.relative_to(server.folder).as_posix(): path.stat().st_size for path in found}
        if "/tree/" in path:
            below = path.partition(f"/tree/{COMMIT}/")[2]
            inside = [(name, size) for name, size in names.items() if name.startswith(below)]
            answer = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in inside]
        else:
            answer = {"id": server.id, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
        return self.answer(200, json.dumps(answer).encode())

    def answer(self, status, data, **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(data)}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def serve(folder, id="wikimedia/wikipedia", kind=Server):
    """The web server of a folder's files."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    web.daemon_threads, web.id, web.folder, web.fails, web.bytes, web.asked = True, id, folder, None, 0, []
    thread = threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


@contextmanager
def point(monkeypatch, cache):
    """Gives a function that points the Hub's client at a port of this machine, with a cache of its own."""
    import huggingface_hub
    from huggingface_hub import constants

    from lsar_jax import hub

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub, "PATIENCE", 0.5)
    api = huggingface_hub.HfApi

    def to(port):
        url = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: api(endpoint=url))
        huggingface_hub.close_session()

    yield to
    huggingface_hub.close_session()
