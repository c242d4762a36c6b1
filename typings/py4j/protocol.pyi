from typing import Any

class Py4JJavaError(Exception):
    java_exception: Any
