"""Tensors of torch by DLPack, both ways and in place. test_values.py has a stand-in for its exports that runs everywhere."""

import gc
import unittest
import weakref

import numpy
from package import PACKAGE  # noqa: F401, it finds the package

import millpond

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import torch
        except ImportError:
            raise unittest.SkipTest("torch is not installed") from None
        cls.torch = torch

    def test_every_type_both_ways_in_place(self):
        for name in TYPES:
            with self.subTest(name):
                given = self.torch.arange(6).reshape(2, 3).to(getattr(self.torch, name))
                tensor = millpond.Tensor(given)
                self.assertEqual((tensor.shape, tensor.tolist()), ((2, 3), given.tolist()))
                back = self.torch.from_dlpack(tensor)
                self.assertEqual((back.dtype, back.data_ptr()), (given.dtype, given.data_ptr()))
                self.assertTrue(self.torch.equal(back, given))
        self.assertEqual(millpond.Tensor(self.torch.tensor([True, False])).tolist(), [True, False])
        self.assertEqual(millpond.Tensor(self.torch.tensor(1.5)).tolist(), 1.5)
        self.assertEqual(millpond.Tensor(self.torch.empty((0, 3))).shape, (0, 3))

    def test_what_is_lent_lives_as_long_as_it_is_read(self):
        tensor = millpond.Tensor(self.torch.ones(1000))
        back = self.torch.from_dlpack(tensor)
        del tensor
        self.assertEqual(back.sum().item(), 1000)
        given = numpy.ones(1000)
        gone = weakref.ref(given)
        back = self.torch.from_dlpack(millpond.Tensor(given))
        del given
        self.assertEqual(back.sum().item(), 1000)
        del back
        gc.collect()
        self.assertIsNone(gone())

    def test_backends_and_callers_of_torch(self):
        @millpond.backend
        def doubled(batch):
            return [self.torch.from_dlpack(millpond.Tensor(item)).clone() * 2 for item in batch]

        with millpond.Pipeline({"stages": {"it": {"backend": doubled}}}) as pipe:
            found = pipe({"data": self.torch.tensor([[1.0, 2.0]])})["it"]
            self.assertEqual(self.torch.from_dlpack(found.copy()).tolist(), [[2, 4]])

    def test_what_cannot_be_lent_says_what_to_do(self):
        for given, refused, words in [
            (self.torch.ones(4, 4)[:, ::2], ValueError, r"for torch by \.contiguous\(\)"),
            (self.torch.ones(2, dtype=self.torch.complex64), ValueError, "expected one of f32"),
            (self.torch.ones(2, requires_grad=True), BufferError, r"detach\(\)"),
            (self.torch.ones(2).to_sparse(), BufferError, "layout"),
            (self.torch.ones(2, device="meta"), ValueError, "meta"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(refused, words):
                millpond.Tensor(given)


if __name__ == "__main__":
    unittest.main()
