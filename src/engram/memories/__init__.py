"""The kinds of memory: working, episodic, semantic and procedural, and the rules for keeping memories.

`working` has the current session, `episodic` past interactions, `semantic` facts (details in `facts`), `procedural` and
`skills` reusable workflows; `records` reads and annotates stored memories; `holds` and `forgetting_curve` decide about
their deletion.
"""
