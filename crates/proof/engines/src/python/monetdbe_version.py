# Prints the version of the package, after a check that its library can be loaded.
import ctypes, importlib.metadata, importlib.util, os

version = importlib.metadata.version("monetdbe")
package = importlib.util.find_spec("monetdbe").submodule_search_locations[0]
ctypes.CDLL(os.path.join(package, "_lowlevel.abi3.so"))
print(version)
