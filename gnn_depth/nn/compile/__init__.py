"""All code that knows about Dynamo and Inductor: compiling blocks, and choosing what compiled code keeps."""
