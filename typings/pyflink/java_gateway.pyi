from typing import Any

class JavaGateway:
    jvm: Any
    def new_array(self, java_class: Any, *dimensions: int) -> Any: ...

def get_gateway() -> JavaGateway: ...
