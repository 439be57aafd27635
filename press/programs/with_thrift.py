"""thrift alone, as what a call over a socket costs: with_thrift.py serve|call|images PORT.

Bytes in and the same bytes out, without generated code: a word, or the photographs of images.py.
"""

import sys

import callers

import images
from r4 import DATA
from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.server.TServer import TThreadedServer
from thrift.Thrift import TMessageType
from thrift.transport.TSocket import TServerSocket, TSocket
from thrift.transport.TTransport import TBufferedTransport, TBufferedTransportFactory


class Echo:
    """What generated code does, for a method of one string."""

    def process(self, given, answer):
        name, _, number = given.readMessageBegin()
        data = given.readBinary()
        given.readMessageEnd()
        answer.writeMessageBegin(name, TMessageType.REPLY, number)
        answer.writeBinary(data)
        answer.writeMessageEnd()
        answer.trans.flush()
        return True

    def on_message_begin(self, _):
        pass


def serve(port):
    listening = TServerSocket("127.0.0.1", port)
    TThreadedServer(Echo(), listening, TBufferedTransportFactory(), TBinaryProtocolFactory(), daemon=True).serve()


def caller(port):
    """Opens a connection; its call sends bytes and gives those that come back."""
    transport = TBufferedTransport(TSocket("127.0.0.1", port))
    transport.open()
    protocol = TBinaryProtocolFactory().getProtocol(transport)

    def call(data):
        protocol.writeMessageBegin("echo", TMessageType.CALL, 1)
        protocol.writeBinary(data)
        protocol.writeMessageEnd()
        transport.flush()
        protocol.readMessageBegin()
        answer = protocol.readBinary()
        protocol.readMessageEnd()
        return answer

    return call


def make(port):
    def of(_caller):
        call = caller(port)
        return lambda: callers.expect(call(DATA), DATA)

    return of


if __name__ == "__main__":
    what, at = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        serve(at)
    elif what == "images":
        images.run_alone(lambda: caller(at))
    else:
        callers.run(make(at))
