"""thrift alone, as what a call over a socket costs: with_thrift.py serve|call PORT. Bytes in and the same bytes out, without generated code."""

import sys

import callers

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


def make(port):
    def of(_caller):
        transport = TBufferedTransport(TSocket("127.0.0.1", port))
        transport.open()
        protocol = TBinaryProtocolFactory().getProtocol(transport)

        def call():
            protocol.writeMessageBegin("echo", TMessageType.CALL, 1)
            protocol.writeBinary(DATA)
            protocol.writeMessageEnd()
            transport.flush()
            protocol.readMessageBegin()
            data = protocol.readBinary()
            protocol.readMessageEnd()
            callers.expect(data, DATA)

        return call

    return of


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        callers.run(make(int(sys.argv[2])))
