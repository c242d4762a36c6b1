from alveus.compat.flink_agents import Agent, Event, MemoryObject, RunnerContext, action

class MyEvent(Event):
    pass

class E0(Agent):
    @action(MyEvent)          # the document's order: action above staticmethod
    @staticmethod
    def my_action(event: Event, ctx: RunnerContext):
        root = ctx.get_short_term_memory()
        root.set("x", 100)
        root.set("y", "abc")
        obj_z = root.new_object("z")
        assert root.get_field_names() == ["x", "y", "z"] and obj_z.get_fields() == {}
        obj_z.set("m", 0.5)
        obj_z.set("n.j", True)                       # creates n on the way
        assert root.get("x") == 100 and root.get("z.m") == 0.5
        assert root.get("xx") is None and root.get("z.mm") is None
        assert root.is_exist("x") and not root.is_exist("xx")
        assert root.is_exist("z.m") and not root.is_exist("z.mm")
        obj_n = root.get("z.n")
        assert isinstance(obj_n, MemoryObject) and obj_n.get("j") is True
        assert obj_z.get_field_names() == ["m", "n"]
        fields = obj_z.get_fields()
        assert fields["m"] == 0.5 and isinstance(fields["n"], MemoryObject)
        root.set("copy", obj_z)                      # "the value must be a primary type, or MemoryObject"
        obj_z.set("m", 1.0)
        assert root.get("copy.m") == 0.5 and root.get("copy.n.j") is True
