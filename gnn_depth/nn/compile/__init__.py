"""Everything that knows about Dynamo and Inductor: how blocks are compiled, and what compiled code keeps."""
