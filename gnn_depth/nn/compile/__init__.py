"""All code that uses Dynamo and Inductor: compiling blocks, and choosing what compiled code
stores."""
