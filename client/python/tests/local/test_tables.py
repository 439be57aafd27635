"""Tables that are built from rows in memory, and looked up in a server of this process."""

import tempfile
import unittest
from pathlib import Path

import numpy
from package import PACKAGE  # noqa: F401

import millpond

try:
    import pyarrow
except ImportError:
    pyarrow = None

# Whatever it waits for: an hour is no hang of a test's machine.
DEADLINE_MS = 60_000


class Tables(unittest.TestCase):
    def setUp(self):
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def look_up(self, keys, name="films", **call):
        """What a server says of the highest version."""
        config = {"server": {"threads": 1}, "features": {name: {"path": str(self.out / name)}}}
        server = millpond.serve(config, port=0)
        self.addCleanup(server.stop)
        asked = call if "texts" in call else {"keys": numpy.array(keys, "uint64").tobytes(), **call}
        with millpond.Client(server.address) as client:
            answer = client.call("features.lookup", {"table": name, **asked}, deadline_ms=DEADLINE_MS)
        server.stop()
        return answer

    def check_floats(self, keys, expected, **call):
        values = numpy.frombuffer(self.look_up(keys, **call)["values"], "float32")
        self.assertEqual(values.tolist(), expected)

    def check_bytes(self, keys, expected, **call):
        answer = self.look_up(keys, type="u8", **call)
        ends = numpy.frombuffer(answer["offsets"], "uint32").tolist()
        rows = [answer["values"][begin:end] for begin, end in zip(ends, ends[1:])]
        self.assertEqual(rows, expected)

    def test_arrays_of_numpy_are_rows(self):
        keys = numpy.arange(1, 20_001, dtype="int64")
        values = numpy.stack([keys / 2, -keys], axis=1)
        built = millpond.build_table((keys, values.astype("float32")), self.out, "films", shards=2)
        self.assertEqual(built[1:6], ("films", 1, 20_000, 2, 2))
        self.assertEqual(built.path, str(self.out / "films" / "00000001"))
        self.check_floats([20_000, 1, 0], [10_000.0, -20_000.0, 0.5, -1.0, 0.0, 0.0])
        # The same rows of another type, in other columns and stored otherwise.
        columns = {"both": "a,b:f16", "half": "a"}
        rows = {"id": keys.astype("int32")[:9], "a": values[:9, 0], "b": values[:9, 1].astype("float16")}
        millpond.build_table(rows, self.out, "films", key_column="id", columns=columns)
        self.check_floats([3], [1.5, -3.0, 1.5])

    def test_a_delta_changes_and_removes(self):
        row = lambda *numbers: numpy.array(numbers, "float32").reshape(-1, 1)
        keys = lambda *numbers: numpy.array(numbers, "uint64")
        millpond.build_table((keys(1, 2, 3), row(1, 2, 3)), self.out, "films", default_row=[-1])
        rows = (keys(2, 4), row(20, 40))
        built = millpond.build_table(rows, self.out, "films", delta=True, remove=keys(3))
        self.assertEqual((built.version, built.rows), (2, 3))
        self.check_floats([1, 2, 3, 4], [1.0, 20.0, -1.0, 40.0])
        built = millpond.build_table(None, self.out, "films", base=2, remove=keys(1))
        self.assertEqual((built.version, built.rows), (3, 2))
        self.check_floats([1, 2], [-1.0, 20.0])

    def test_rows_of_bytes(self):
        rows = ([b"", b"\xff\0"], [1, 2])
        keys = numpy.array([1, 2], "uint64")
        millpond.build_table((keys, rows[0]), self.out, "films", type="bytes", default_row="{}")
        self.check_bytes([2, 1, 9], [b"\xff\0", b"", b"{}"])
        fixed = numpy.array([b"ab", b"abcd"], "S4")
        millpond.build_table((keys, fixed), self.out, "films", type="bytes:4")
        self.assertEqual(self.look_up([2, 1], type="u8")["values"], b"abcdab\0\0")

    def test_texts_are_keys(self):
        keys = numpy.array(["drama", "comédie"])
        values = numpy.array([[1.0], [2.0]])
        millpond.build_table((keys, values), self.out, "films", keys="text", slot="genre")
        self.check_floats([], [2.0, 0.0], texts=["comédie", "war"])

    def test_what_is_wrong_is_named_in_the_command_s_words(self):
        keys, values = numpy.array([1, 2], "uint64"), numpy.array([[0.5], [numpy.nan]])

        def check(words, rows=(keys, values), kind=millpond.TableError, **options):
            with self.assertRaisesRegex(kind, words):
                millpond.build_table(rows, self.out, "films", **options)
            self.assertFalse((self.out / "films").exists())

        check(r'the rows given, row 1 \(counted from 0\), column "vector": element 0 is NaN')
        check("duplicates: expected error, first or last", duplicates="some")
        check("memory: expected 1MiB or more", memory="1MB")
        check("columns: expected NAME=COLUMNS or NAME=COLUMNS:TYPE", columns={"": "a"})
        check("type: expected f32, f16, bf16, i8_scaled, bytes or bytes:16", type="f15")
        check('no column "vector"', rows={"key": keys, "price": values})
        check("expected numbers, or a column that is said to hold bytes", rows=(keys, [b"a", b"b"]))
        check("no version of a feature table", delta=True)
        twice = {"key": numpy.array([7, 8, 7], "uint64"), "vector": numpy.ones((3, 1))}
        check(r"row 2 \(counted from 0\), column \"key\": key 7 is in row 0", rows=twice)
        check("has 1 rows, the first column 2", rows=(keys, values[:1]), kind=ValueError)
        check("the rows are a list; expected a pyarrow.Table", rows=[1], kind=TypeError)

    @unittest.skipIf(pyarrow is None, "needs pyarrow")
    def test_a_table_of_pyarrow_is_read_in_place(self):
        keys = numpy.arange(30_000, dtype="uint64")
        lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(numpy.repeat(keys, 2).astype("float32")), 2)
        table = pyarrow.table({"key": keys, "vector": lists, "doc": [str(key) for key in keys]})
        columns = {"vector": "vector"}
        built = millpond.build_table(table, self.out, "films", columns=columns)
        self.assertEqual((built.rows, built.dim), (30_000, 2))
        self.check_floats([29_999, 7], [29_999.0, 29_999.0, 7.0, 7.0])
        # In batches; and a reader that can be read but once.
        reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1000))
        millpond.build_table(reader, self.out, "films", columns={"doc": "doc:bytes"})
        self.check_bytes([29_999, 7], [b"29999", b"7"])
        twice = pyarrow.table({"key": pyarrow.array([7, 7], "uint64"), "doc": ["a", "b"]})
        with self.assertRaisesRegex(millpond.TableError, "key 7 is there twice"):
            reader = pyarrow.RecordBatchReader.from_batches(twice.schema, twice.to_batches())
            millpond.build_table(reader, self.out, "films", columns={"doc": "doc:bytes"})


if __name__ == "__main__":
    unittest.main()
