# Reads lines "SEED SKIP COUNT KIND [ARGUMENT ...]" and writes the outputs of Ruby's Random, a line each.
if ARGV[0] == "--version"
  puts "Ruby #{RUBY_VERSION}"
  exit
end
$stdin.each_line do |line|
  seed, skip, count, kind, a, b = line.split
  random, skip, count, a, b = Random.new(seed.to_i), skip.to_i, count.to_i, a.to_i, b.to_i
  draw = {
    "float" => -> { random.rand },
    "below" => -> { random.rand(a) },
    "range" => -> { random.rand(a..b) },
    "floor" => -> { (random.rand * a).floor },
    "bytes" => -> { "\"#{random.bytes(a).unpack1("H*")}\"" },
    "shuffle" => -> { (0...a).to_a.shuffle(random: random).to_s.delete(" ") },
    "sample:below" => -> { (0...a).to_a.sample(random: random) },
  }[kind]
  skip.times { draw.call }
  puts Array.new(count) { draw.call }.join(" ")
end
