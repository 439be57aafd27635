"""Tensors from Python's objects and back, in place where that can be; no server."""

import array
import ctypes
import gc
import subprocess
import sys
import unittest
import weakref

import ml_dtypes
import numpy
from package import PACKAGE

import millpond

NUMBERS = {
    "f": "f32",
    "d": "f64",
    "q": "i64",
    "i": "i32",
    "h": "i16",
    "b": "i8",
    "Q": "u64",
    "I": "u32",
    "H": "u16",
    "B": "u8",
}


INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


class Only:
    """Nothing but DLPack, as torch's tensors."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def address(object):
    """Where numpy sees the elements."""
    return numpy.asarray(object).__array_interface__["data"][0]


class Tensors(unittest.TestCase):
    def test_arrays_of_numbers_have_a_type_and_a_shape(self):
        for code, name in NUMBERS.items():
            with self.subTest(code):
                tensor = millpond.Tensor(array.array(code, [1, 2, 3]))
                self.assertEqual((tensor.type, tensor.shape, len(tensor)), (name, (3,), 3))
                self.assertEqual(tensor.tolist(), [1, 2, 3])
                view = memoryview(tensor)
                self.assertEqual((view.format, view.readonly, view.shape, view.tolist()), (code, True, (3,), [1, 2, 3]))
                self.assertEqual(tensor.nbytes, view.nbytes)
        square = memoryview(bytes(range(6))).cast("B", (2, 3))
        tensor = millpond.Tensor(square)
        self.assertEqual((tensor.tolist(), repr(tensor)), ([[0, 1, 2], [3, 4, 5]], "<millpond.Tensor u8[2, 3]>"))
        self.assertEqual(memoryview(tensor).strides, (3, 1))

    def test_memory_is_shared_and_held(self):
        numbers = array.array("f", [1, 2, 3])
        tensor = millpond.Tensor(numbers)
        numbers[1] = 5
        self.assertEqual(tensor.tolist(), [1, 5, 3])
        with self.assertRaises(BufferError):
            numbers.append(4)
        del tensor
        gc.collect()
        numbers.append(4)

    def test_a_buffer_outlives_its_tensor(self):
        view = memoryview(millpond.Tensor(array.array("d", [1, 2])))
        gc.collect()
        self.assertEqual(view.tolist(), [1, 2])
        with self.assertRaises(TypeError):
            view[0] = 3

    def test_truth_values_are_copied_and_checked(self):
        source = bytearray([0, 1, 7])
        tensor = millpond.Tensor(memoryview(source).cast("?"))
        source[0] = 9
        self.assertEqual((tensor.type, tensor.tolist()), ("bool", [False, True, True]))
        self.assertEqual(bytes(memoryview(tensor).cast("B")), b"\0\1\1")

    def test_what_has_gaps_or_no_alignment_is_copied(self):
        numbers = memoryview(array.array("i", range(6)))
        self.assertEqual(millpond.Tensor(numbers[::2]).tolist(), [0, 2, 4])
        shifted = memoryview(b"\0" + bytes(memoryview(array.array("d", [1, 2]))))[1:]
        self.assertEqual(millpond.Tensor(shifted.cast("d")).tolist(), [1, 2])
        self.assertEqual(millpond.Tensor(memoryview(b"").cast("d")).shape, (0,))

    def test_numbers_of_python(self):
        for given, name in ((1, "i64"), (1.5, "f64"), (True, "bool")):
            tensor = millpond.Tensor(given)
            self.assertEqual((tensor.type, tensor.shape, tensor.tolist()), (name, (), given))
            self.assertIs(type(tensor.tolist()), type(given))
        with self.assertRaisesRegex(TypeError, "has no length"):
            len(millpond.Tensor(1))
        with self.assertRaisesRegex(ValueError, "the argument is out of range"):
            millpond.Tensor(2**63)

    def test_texts(self):
        self.assertEqual(millpond.Tensor("é").tolist(), "é".encode())
        self.assertEqual(millpond.Tensor(["a", b"\xff", bytearray(b"c")]).tolist(), [b"a", b"\xff", b"c"])
        self.assertEqual(millpond.Tensor(("a",)).shape, (1,))
        with self.assertRaisesRegex(BufferError, "no elements of type bytes; use numpy"):
            memoryview(millpond.Tensor("a"))
        with self.assertRaisesRegex(ValueError, "surrogate"):
            millpond.Tensor("\ud800")

    def test_what_is_no_tensor_is_refused_by_name(self):
        for given, raised, words in (
            ({1}, TypeError, "the argument is a set; expected an array"),
            (None, TypeError, "is a NoneType"),
            ([1.0], TypeError, "has a float at 0; a list holds str and bytes: make numbers an array first"),
            (memoryview(b"a").cast("c"), ValueError, "format 'c'|format \"c\""),
            (memoryview(b"a").cast("c"), ValueError, "expected float32, float64"),
        ):
            with self.subTest(given), self.assertRaisesRegex(raised, words):
                millpond.Tensor(given)

    def test_a_tensor_of_a_tensor_is_the_same(self):
        tensor = millpond.Tensor(array.array("f", [1, 2]))
        self.assertEqual(millpond.Tensor(tensor).tolist(), [1, 2])

    def test_dlpack_from_itself(self):
        class Made:
            """An older producer: it knows no versions."""

            def __init__(self, tensor, device=(1, 0)):
                self.tensor, self.device = tensor, device

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self):
                return self.tensor.__dlpack__()

        tensor = millpond.Tensor(memoryview(bytes(range(6))).cast("B", (2, 3)))
        for made in (Made(tensor), Made(millpond.Tensor(array.array("f", [1, 2])))):
            self.assertEqual(millpond.Tensor(made).tolist(), made.tensor.tolist())
        with self.assertRaisesRegex(ValueError, r"is on DLPack device \(2, 0\); expected the CPU"):
            millpond.Tensor(Made(tensor, (2, 0)))
        with self.assertRaisesRegex(BufferError, "DLPack has no elements of type bytes"):
            millpond.Tensor("a").__dlpack__()
        with self.assertRaisesRegex(BufferError, "has no stream"):
            tensor.__dlpack__(stream=1)
        with self.assertRaisesRegex(BufferError, "not \\(2, 0\\)"):
            tensor.__dlpack__(dl_device=(2, 0))
        with self.assertRaisesRegex(TypeError, "gives no capsule"):

            class Wrong(Made):
                def __dlpack__(self):
                    return 1

            millpond.Tensor(Wrong(tensor))
        # Capsules that nobody takes end themselves.
        for version in (None, (1, 0)):
            for copy in (None, True):
                tensor.__dlpack__(max_version=version, copy=copy)

    def test_a_consumer_of_dlpack_may_let_go_of_the_interpreter(self):
        # As torch does before it ends what it took, here inside of a backend. The name must outlive the capsule.
        name = ctypes.create_string_buffer(b"used_dltensor")
        pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetName", ctypes.pythonapi))
        deleter_at = 56

        @millpond.backend
        def consume(batch):
            capsule = millpond.Tensor(lent.pop()).__dlpack__()
            managed = pointer_of(capsule, b"dltensor")
            rename(capsule, ctypes.addressof(name))
            deleter = ctypes.c_void_p.from_address(managed + deleter_at).value
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed)
            return batch

        lent = [array.array("f", [1, 2])]
        gone = weakref.ref(lent[0])
        with millpond.Pipeline({"stages": {"it": {"backend": consume}}}) as pipe:
            self.assertEqual(pipe({"data": 1}), {"it": 1})
        self.assertIsNone(gone())

    def test_the_package_needs_no_numpy(self):
        script = "import sys; sys.modules['numpy'] = None; import millpond; print(millpond.Tensor(b'a').tolist())"
        command = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(PACKAGE)!r}]; {script}"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual((found.stdout, found.stderr), ("b'a'\n", ""))


class Numpy(unittest.TestCase):
    def test_every_type_both_ways_in_place(self):
        for name in ("float32", "float64", "float16", *INTEGERS):
            with self.subTest(name):
                given = numpy.arange(6).reshape(2, 3).astype(name)
                if name in INTEGERS:
                    given[1, 1:] = numpy.iinfo(name).min, numpy.iinfo(name).max
                tensor = millpond.Tensor(given)
                for found in (tensor.numpy(), numpy.asarray(tensor), numpy.from_dlpack(tensor)):
                    self.assertEqual(address(found), given.__array_interface__["data"][0])
                    numpy.testing.assert_array_equal(found, given)
                    self.assertEqual((found.dtype, found.flags.writeable), (given.dtype, False))
                self.assertEqual(tensor.tolist(), given.tolist())
        given = numpy.array([[True], [False]])
        numpy.testing.assert_array_equal(millpond.Tensor(given).numpy(), given)

    def test_bfloat16(self):
        given = numpy.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
        tensor = millpond.Tensor(given)
        self.assertEqual((tensor.type, tensor.tolist()), ("bf16", [[0, 1, 2], [3, 4, 5]]))
        for found in (tensor.numpy(), numpy.asarray(tensor)):
            self.assertEqual((found.dtype, found.shape), (given.dtype, (2, 3)))
            self.assertEqual(address(found.view("uint16")), address(given.view("uint16")))
        self.assertEqual(millpond.Tensor(given[:, ::2]).tolist(), [[0, 2], [3, 5]])
        self.assertEqual(millpond.Tensor(given[:0]).numpy().shape, (0, 3))

    def test_dlpack_is_taken_in_place(self):
        for name in ("float32", "float64", "float16", *INTEGERS):
            given = numpy.arange(6, dtype=name)
            tensor = millpond.Tensor(Only(given))
            self.assertEqual((address(tensor), tensor.tolist()), (address(given), given.tolist()), name)
        given = numpy.arange(6, dtype="float32").reshape(2, 3)
        gone = weakref.ref(given)
        tensor = millpond.Tensor(Only(given))
        self.assertEqual(address(tensor), address(given))
        self.assertEqual(tensor.shape, (2, 3))
        expected = given.tolist()
        del given
        gc.collect()
        self.assertEqual(tensor.tolist(), expected)
        del tensor
        gc.collect()
        self.assertIsNone(gone())
        with self.assertRaisesRegex(ValueError, "not contiguous"):
            millpond.Tensor(Only(numpy.ones((4, 4), "float32")[:, ::2]))
        with self.assertRaisesRegex(ValueError, "code 5, 64 bits, 1 lanes.; expected one of f32, .*, i8, .*, bool"):
            millpond.Tensor(Only(numpy.ones(4, "complex64")))

    def test_a_copy_by_dlpack_may_be_written(self):
        tensor = millpond.Tensor(numpy.ones(2, "float32"))
        found = numpy.from_dlpack(tensor, copy=True)
        found[0] = 5
        self.assertEqual(tensor.tolist(), [1, 1])

    def test_texts_and_scalars(self):
        for given in (numpy.array([["a", "bc"]]), numpy.array([["a", "bc"]], "O"), numpy.array([[b"a", b"bc"]])):
            tensor = millpond.Tensor(given)
            self.assertEqual((tensor.type, tensor.tolist()), ("bytes", [[b"a", b"bc"]]))
            self.assertEqual(tensor.numpy().tolist(), [[b"a", b"bc"]])
        for given in (numpy.float32(1.5), numpy.float64(1.5), numpy.array(1.5)):
            self.assertEqual((millpond.Tensor(given).shape, millpond.Tensor(given).tolist()), ((), 1.5))

    def test_other_arrays_are_refused(self):
        for given in (numpy.ones(2, ">f4"), numpy.ones(2, "complex64"), numpy.ones(2, "datetime64[s]"), numpy.array([1, None])):
            with self.subTest(given.dtype), self.assertRaises((ValueError, TypeError)) as raised:
                millpond.Tensor(given)
            self.assertIn("the argument", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
