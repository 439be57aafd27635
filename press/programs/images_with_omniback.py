"""omniback, torchpipe's core, with photographs: images_with_omniback.py MODEL, with the settings that r4.toml has for that model.

Its backend is in Python: OpenCV decodes and resizes, ONNX Runtime classifies, a batch at a time.
"""

import sys

import images

import numpy
import omniback


def main():
    name = sys.argv[1]
    settings = images.settings()[name]

    class Backend:
        def init(self, parameters, options):
            self.classify = images.classifier(name)

        def forward(self, requests):
            for request, shares in zip(requests, self.classify([request["data"] for request in requests])):
                request["result"] = shares

        def max(self):
            return settings["batch_size_max"]

    omniback.register("Classifier", Backend)
    # In milliseconds, and whole.
    batching = {"instance_num": settings["instances"], "batching_timeout": settings["batch_delay_us_max"] // 1000}
    pipe = omniback.pipe({"y": {"backend": "Classifier", **batching}})

    def call(jpeg):
        request = {"data": jpeg}
        pipe(request)
        return numpy.from_dlpack(request["result"])

    images.run(name, lambda: call)


if __name__ == "__main__":
    main()
