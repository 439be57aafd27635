"""What the tests of the in-process half import: the package, with the native half that `make python` put there. No server.

They run in the demo's environment, which has numpy and ONNX Runtime.
"""

import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PACKAGE))
