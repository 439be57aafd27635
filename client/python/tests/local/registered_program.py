"""A program as torchpipe's users write it; `omniback` is the module that it is given, and that import is its only difference."""


def run(omniback):
    class Lengths:
        def init(self, parameters, options):
            self.suffix = parameters["suffix"].encode()

        def forward(self, requests):
            for request in requests:
                request["seen"] = sorted(key for key in request.keys() if key != "node_name")
                request["result"] = request["data"] + self.suffix

        def max(self):
            return 4

    class Count:
        def forward(self, requests):
            for request in requests:
                if request["data"] != b"none!":
                    request["result"] = len(request["data"])

    class Fails:
        def forward(self, requests):
            raise KeyError("no such word")

    omniback.register("Lengths", Lengths)
    omniback.register("Count", Count)
    omniback.register("Fails", Fails)
    found = []
    pipe = omniback.pipe({"first": {"backend": "Lengths", "suffix": "!", "next": "second"}, "second": {"backend": "Count"}})
    for data in b"calm", b"none":
        request = {"data": data, "context": {"trace": 7}, "result": "old"}
        pipe(request)
        found.append((request.get("result"), request["context"]["trace"], list(request["seen"])))
    fails = omniback.pipe({"third": {"backend": "Fails"}})
    try:
        fails({"data": b""})
    except KeyError as error:
        found.append("no such word" in str(error))
    chain = omniback.pipe({"fourth": {"backend": "S[Lengths,Lengths,Identity]", "suffix": "?", "instance_num": 2}})
    request = {"data": b"calm"}
    chain(request)
    return [*found, request["result"]]
