"""The judge as a service: over HTTP, with the wire names of KernelGYM too, and over the Model Context Protocol."""
