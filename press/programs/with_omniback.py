"""omniback, torchpipe's core, from Python: with_omniback.py CASE [BATCH_SIZE_MAX].

    native, python   bytes in and the same bytes out, by its Identity and by a backend in Python
    batch            batches of at most BATCH_SIZE_MAX by a backend in Python, which may wait 10 ms to fill
    sum              the GIL-bound function as a backend in Python of ten instances
"""

import sys

import callers

import omniback
from r4 import DATA, SUM, add_up


def backend(size_max, of):
    class Backend:
        def init(self, parameters, options):
            pass

        def forward(self, requests):
            for request in requests:
                request["result"] = of(request["data"])

        def max(self):
            return size_max

    return Backend


def pipe_of(case, size_max):
    batching = {"batching_timeout": 10}
    if case == "native":
        return {"backend": "Identity"}
    of = (lambda _: add_up()) if case == "sum" else (lambda data: data)
    omniback.register("Ours", backend(size_max, of))
    options = {"batch": batching, "sum": {"instance_num": 10}}.get(case, {})
    return {"backend": "Ours", **options}


def main():
    case = sys.argv[1]
    size_max = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    pipe, expected = omniback.pipe({"echo": pipe_of(case, size_max)}), SUM if case == "sum" else DATA

    def call():
        request = {"data": DATA}
        pipe(request)
        callers.expect(request["result"], expected)

    callers.run(lambda _caller: call)


if __name__ == "__main__":
    main()
