-- Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]" and writes the outputs of math.random, a line each.
if arg[1] == "--version" then
  print(_VERSION)
  os.exit()
end
for line in io.lines() do
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local seed, skip, count, kind = math.tointeger(words[1]), math.tointeger(words[2]), math.tointeger(words[3]), words[4]
  local a, b = math.tointeger(words[5]), math.tointeger(words[6])
  local draw = ({
    integer = function() return math.random(0) end,
    float = function() return string.format("%.17g", math.random()) end,
    below = function() return math.random(a) - 1 end,
    range = function() return math.random(a, b) end,
    floor = function() return math.floor(math.random() * a) end,
  })[kind]
  math.randomseed(seed)
  for _ = 1, skip do draw() end
  local draws = {}
  for i = 1, count do draws[i] = tostring(draw()) end
  print(table.concat(draws, " "))
end
