// Computes Bessel and Airy functions, in double. The series are Chebyshev expansions on the stated intervals.
#pragma once

#include "math.h"
#include "special_error.h"

namespace facula::kernels {

// ---- oscillating

FACULA_RARE double bessel_j0(double x) { return isinf(x) ? Float<double>::nan : FACULA_LIBM(j0)(x); }
FACULA_RARE double bessel_j1(double x) { return isinf(x) ? Float<double>::nan : FACULA_LIBM(j1)(x); }
/// Infinite at 0, NaN below.
FACULA_RARE double bessel_y0(double x) {
  if (x == 0) return -Float<double>::infinity;
  return x > 0 && !isinf(x) ? FACULA_LIBM(y0)(x) : Float<double>::nan;
}
FACULA_RARE double bessel_y1(double x) {
  if (x == 0) return -Float<double>::infinity;
  return x > 0 && !isinf(x) ? FACULA_LIBM(y1)(x) : Float<double>::nan;
}
/// sin(x) / x.
FACULA_RARE double spherical_bessel_j0(double x) {
  if (isinf(x)) return 0;
  return x == 0 ? 1 : sin(x) / x;
}

// ---- modified, first kind

/// e^-x I0(x) in x / 4 - 1, x of 0..8, and sqrt(x) e^-x I0(x) in 16 / x - 1, x from 8 on.
FACULA_TABLE double i0e_small[] = {
    0.33839763720473803,    -0.3046826723431984,     0.17162090152220877,    -0.094901097048047639,
    0.049305284239670712,   -0.023737414805899471,   0.010546460394594998,   -0.0043243099950505759,
    0.0016394756169413357,  -0.00057637557453858236, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06, -2.6707938539406119e-07,
    6.0469950225419186e-08, -1.300025009986248e-08,  2.6598237246823866e-09, -5.1897956016352627e-10,
    9.675809035373237e-11,  -1.7268262914415559e-11, 2.9550526631296399e-12, -4.856446783111929e-13,
    7.6761854986049361e-14, -1.1685332877993451e-14, 1.7153912855551331e-15, -2.4312798465479549e-16,
    3.3307945188222384e-17, -4.4153416464793395e-18};
FACULA_TABLE double i0e_large[] = {
    0.40224520550705439,     0.0033691164782556943,   6.8897583469168245e-05,  2.8913705208347567e-06,
    2.0489185894690638e-07,  2.266668990498178e-08,   3.3962320257083865e-09,  4.9406023882249701e-10,
    1.1889147107846439e-11,  -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
    7.180124451383666e-13,   3.8527783827421426e-13,  1.54008621752141e-14,    -4.1505693472872222e-14,
    -9.5548466988283073e-15, 3.8116806693526224e-15,  1.7725601330565263e-15,  -3.425485619677219e-16,
    -2.8276239805165836e-16, 3.4612228676974612e-17,  4.4656214202967598e-17,  -4.8305044859441819e-18,
    -7.2331804878747538e-18};

/// e^-x I1(x) / x and sqrt(x) e^-x I1(x), on the same intervals.
FACULA_TABLE double i1e_small[] = {
    0.12629359322181682,    -0.17641651835783406,    0.10264365868984709,    -0.052945981208094989,
    0.024726449030626516,   -0.010564084894626197,   0.0041564229443128882,  -0.0015135724506312532,
    0.00051228595616857576, -0.00016176081582589674, 4.7815651075500542e-05, -1.3273163656039436e-05,
    3.4702513081376785e-06, -8.5687202646954547e-07, 2.0032947535521353e-07, -4.4450591287963281e-08,
    9.3815373864957726e-09, -1.8872497517228294e-09, 3.6255902815521172e-10, -6.6634897235020271e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.2237933659455748e-13, -5.0421855047279118e-14,
    7.6006842947354077e-15, -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17,
    2.7779141127610464e-18};
FACULA_TABLE double i1e_large[] = {
    0.38928811750914005,     -0.0097610974913614687,  -0.00011058893876262371, -3.8825648088776906e-06,
    -2.5122362378702088e-07, -2.6314688468895196e-08, -3.835380385964237e-09,  -5.5897434621965838e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
    -7.1985517762459084e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14,  -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.9626289976459501e-16,  -3.2095259219934238e-17, -4.6503053684893586e-17, 4.4143483230717077e-18,
    7.5172963108421052e-18};

/// e^-|x| I0(x).
FACULA_RARE double i0e(double x) {
  const double a = abs(x);
  return a <= 8 ? chebyshev_series(0.25 * a - 1, i0e_small) : chebyshev_series(16 / a - 1, i0e_large) / sqrt(a);
}

/// e^-|x| I1(x).
FACULA_RARE double i1e(double x) {
  const double a = abs(x);
  if (a <= 8) return x * chebyshev_series(0.25 * a - 1, i1e_small);
  return copysign(chebyshev_series(16 / a - 1, i1e_large) / sqrt(a), x);
}

/// In two halves, since e^x overflows before I0 and I1 do.
FACULA_RARE double i0(double x) {
  const double root = exp(0.5 * abs(x));
  return root * i0e(x) * root;
}
FACULA_RARE double i1(double x) {
  const double root = exp(0.5 * abs(x));
  return root * i1e(x) * root;
}
FACULA_RARE double modified_bessel_i0(double x) { return i0(x); }
FACULA_RARE double modified_bessel_i1(double x) { return i1(x); }

// ---- modified, second kind

/// K0(x) + log(x / 2) I0(x) in x^2 / 2 - 1, x of 0..2, and sqrt(x) e^x K0(x) in 4 / x - 1, x from 2 on.
FACULA_TABLE double k0_small[] = {-0.26766369661695139,   0.3442898999246285,     0.035979936515361501,
                                  0.001264615411446926,   2.2862121031194519e-05, 2.5347910790261494e-07,
                                  1.9045163772202091e-09, 1.0349695257633625e-11, 4.2598161427910826e-14,
                                  1.3744654358807508e-16};
FACULA_TABLE double k0_large[] = {
    1.2201515410329777,     -0.031448101311964502,   0.0015698838857300533,  -0.00012849549581627802,
    1.39498137188765e-05,   -1.8317555227191195e-06, 2.7668136394450149e-07, -4.6604898976879478e-08,
    8.5740340174142253e-09, -1.6975345093890614e-09, 3.5773972814003283e-10, -7.9574892444773965e-11,
    1.8559491149549264e-11, -4.5145978833745193e-12, 1.1403405882073441e-12, -2.9800969231481784e-13,
    8.0328907750683746e-14, -2.2275133267462965e-14, 6.3400764762766461e-15, -1.8485933779209071e-15,
    5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17, -1.6475805939842632e-17,
    5.3004337711773354e-18};

/// x (K1(x) - log(x / 2) I1(x)) and sqrt(x) e^x K1(x), on the same intervals.
FACULA_TABLE double k1_small[] = {0.76265011366947388,    -0.35315596077654487,    -0.12261118082265715,
                                  -0.0069757238596398641, -0.0001730288957513052,  -2.4334061415659684e-06,
                                  -2.213387630734726e-08, -1.4114883926335278e-10, -6.6669016941993295e-13,
                                  -2.427449850519366e-15, -7.0238634793862882e-18};
FACULA_TABLE double k1_large[] = {
    1.3603130952422213,      0.10392373657681724,    -0.0028578168596227792,  0.00019521551847135162,
    -1.936197974166083e-05,  2.406484947837217e-06,  -3.5019606030878126e-07, 5.7410841254500495e-08,
    -1.0345762465678097e-08, 2.0150497551970347e-09, -4.1903547593419254e-10, 9.2183151876053146e-11,
    -2.1299678384277909e-11, 5.1396396734823432e-12, -1.2891739609498229e-12, 3.3484196660522431e-13,
    -8.9767051820101463e-14, 2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.0570472706430177e-16, 1.8380935752430455e-16, -5.6894628491936484e-17, 1.7940510478863572e-17,
    -5.7567444820733025e-18};

/// K0(x) for x of 0..2, infinite at 0, NaN below.
FACULA_RARE double k0_near_zero(double x) {
  if (x == 0) return Float<double>::infinity;
  return chebyshev_series(0.5 * x * x - 1, k0_small) - log(0.5 * x) * i0(x);
}
FACULA_RARE double k1_near_zero(double x) {
  if (x == 0) return Float<double>::infinity;
  return chebyshev_series(0.5 * x * x - 1, k1_small) / x + log(0.5 * x) * i1(x);
}

FACULA_RARE double modified_bessel_k0(double x) {
  return x <= 2 ? k0_near_zero(x) : exp(-x) * chebyshev_series(4 / x - 1, k0_large) / sqrt(x);
}
FACULA_RARE double modified_bessel_k1(double x) {
  return x <= 2 ? k1_near_zero(x) : exp(-x) * chebyshev_series(4 / x - 1, k1_large) / sqrt(x);
}
/// e^x K0(x), e^x K1(x).
FACULA_RARE double scaled_modified_bessel_k0(double x) {
  return x <= 2 ? exp(x) * k0_near_zero(x) : chebyshev_series(4 / x - 1, k0_large) / sqrt(x);
}
FACULA_RARE double scaled_modified_bessel_k1(double x) {
  return x <= 2 ? exp(x) * k1_near_zero(x) : chebyshev_series(4 / x - 1, k1_large) / sqrt(x);
}

// ---- Airy

inline constexpr double airy_zeta_at_2 = 1.88561808316412673174;  // 2/3 * 2^1.5

/// With zeta = 2/3 |x|^1.5, for |x| >= 2: 2 sqrt(pi) x^(1/4) e^zeta Ai(x) in 2 zeta(2) / zeta - 1, and the
/// two factors of sqrt(pi) |x|^(1/4) Ai(-|x|) = f sin(zeta + pi/4) - g / zeta cos(zeta + pi/4) in 2 (zeta(2)
/// / zeta)^2 - 1.
FACULA_TABLE double airy_decay[] = {
    0.98440530491715517,    -0.014792784850104199,   0.00073271774654267146, -6.1259542341782504e-05,
    6.8347669755726903e-06, -9.2372297354039818e-07, 1.436225340438052e-07,  -2.4893194223220961e-08,
    4.7097934400543277e-09, -9.5838637081127331e-10, 2.0745855483677591e-10, -4.737267332192277e-11,
    1.1336099808224236e-11, -2.8277067823193509e-12, 7.3207120951255979e-13, -1.9599793911089723e-13,
    5.4101162570683925e-14, -1.5356466802223836e-14, 4.4723403933000248e-15, -1.3338094674756683e-15,
    4.0665820464562309e-16, -1.2655832256452891e-16, 4.0151263340158709e-17, -1.2969972135960937e-17,
    4.2613499074124002e-18};
FACULA_TABLE double airy_sine[] = {
    0.99574107147211621,    -0.0040100351096467746,  0.00021749797850221077, -2.5597073679919529e-05,
    4.446236506870234e-06,  -9.8215610551167525e-07, 2.5608032631734859e-07, -7.5482342030907845e-08,
    2.4472134824591198e-08, -8.5654757551852888e-09, 3.1936752594998614e-09, -1.2559870213945038e-09,
    5.1705508362522468e-10, -2.2149050974012306e-10, 9.8256747602367922e-11, -4.4963784985107854e-11,
    2.1156885271618144e-11, -1.0208220646688568e-11, 5.0391493689678294e-12, -2.5398941297478285e-12,
    1.304918970251632e-12,  -6.8236169927727033e-13, 3.626950049323753e-13,  -1.9573262197294178e-13,
    1.0713573340080926e-13, -5.9423379875236017e-14, 3.3371473774704784e-14, -1.8961243049854642e-14,
    1.0892823911589504e-14, -6.3231274396086543e-15, 3.7068074960799013e-15, -2.1934322612601704e-15,
    1.3094899752204591e-15, -7.8840201609246052e-16, 4.7850793266405451e-16, -2.9266286021270834e-16,
    1.8031669022208532e-16, -1.1188125413889618e-16, 6.9888302954236769e-17, -4.3939861021364585e-17,
    2.7797702292481699e-17, -1.7690954303762743e-17, 1.1323699412020779e-17, -7.2883395396632606e-18,
    4.7161319626669848e-18};
FACULA_TABLE double airy_cosine[] = {
    0.065700908840592182,   -0.0033671650461869046,  0.00031318668306176705, -4.9094747114346959e-05,
    1.0313853228014992e-05, -2.6227031443554174e-06, 7.6428340308997043e-07, -2.4692182109787845e-07,
    8.6543234714043704e-08, -3.2412592511092894e-08, 1.2830030202968923e-08, -5.3232648242895168e-09,
    2.3002631954788238e-09, -1.0299480657983928e-09, 4.7588706803983649e-10, -2.2613824101179476e-10,
    1.1020490598752159e-10, -5.4947920141439997e-11, 2.7973298258565798e-11, -1.4515080315590846e-11,
    7.6651360338657286e-12, -4.1140428081584066e-12, 2.2416041465969636e-12, -1.238627510878091e-12,
    6.9344777566629577e-13, -3.9302435816814714e-13, 2.2533844185296051e-13, -1.3060801045584624e-13,
    7.6481914227486396e-14, -4.522322228130368e-14,  2.6987231238994199e-14, -1.6246053688291405e-14,
    9.8615490705567595e-15, -6.0336428880592533e-15, 3.7195787441789416e-15, -2.3096263990228158e-15,
    1.444069643567488e-15,  -9.0888099881027618e-16, 5.7567981481905922e-16, -3.6686007150846574e-16,
    2.3515964461248611e-16, -1.515904799737088e-16,  9.8251143002756953e-17, -6.4014005088779106e-17,
    4.1918350428654123e-17, -2.7583525228842767e-17, 1.8236457247797602e-17, -1.2111800415126624e-17,
    8.0796041516844822e-18, -5.4128098198003986e-18, 3.6412158658647173e-18, -2.4592370836467475e-18,
    1.6673249785828539e-18, -1.1345694498911965e-18, 7.7470112039525378e-19, -5.3061613332742826e-19,
    3.6434833412748007e-19};

/// Maclaurin series, for |x| <= 2.
FACULA_RARE double airy_ai_near_zero(double x) {
  const double cube = x * x * x;
  double even = 0.35502805388781723926, odd = 0.25881940379280679841 * x, sum = even - odd;
  for (int k = 3; k < 60; k += 3) {
    even *= cube / (k * (k - 1));
    odd *= cube / (k * (k + 1));
    sum += even - odd;
  }
  return sum;
}

FACULA_RARE double airy_ai(double x) {
  const double a = abs(x), root = sqrt(a), zeta = 2.0 / 3 * a * root, quarter_root = sqrt(root);
  if (isinf(x)) return Float<double>::nan;
  if (a <= 2) return airy_ai_near_zero(x);
  if (x > 104) return 0;  // below the smallest double
  const double u = airy_zeta_at_2 / zeta;
  if (x > 0) return exp(-zeta) * chebyshev_series(2 * u - 1, airy_decay) / (2 * sqrt_pi * quarter_root);
  const double angle = zeta + pi / 4, v = 2 * u * u - 1;
  const double f = chebyshev_series(v, airy_sine), g = chebyshev_series(v, airy_cosine) / zeta;
  return (f * sin(angle) - g * cos(angle)) / (sqrt_pi * quarter_root);
}

/// Free of branches, for float results: as many terms as these need. NaN at infinity, as in PyTorch.
FACULA_FN double i0_for_float(double x) {
  const double a = abs(x), b = a < 8 ? 8.0 : a;
  const double small = first_chebyshev_terms<20>(a < 8 ? 0.25 * a - 1 : 1.0, i0e_small);
  const double large = first_chebyshev_terms<8>(16 / b - 1, i0e_large) / sqrt(b);
  return exp(clamp(a, 0.0, 1000.0)) * (a > 8 ? large : small);
}
FACULA_FN double i1_for_float(double x) {
  const double a = abs(x), b = a < 8 ? 8.0 : a;
  const double small = a * first_chebyshev_terms<22>(a < 8 ? 0.25 * a - 1 : 1.0, i1e_small);
  const double large = first_chebyshev_terms<9>(16 / b - 1, i1e_large) / sqrt(b);
  return exp(clamp(a, 0.0, 1000.0)) * copysign(a > 8 ? large : small, x);
}
FACULA_FN float i0(float x) { return static_cast<float>(i0_for_float(x)); }
FACULA_FN float i1(float x) { return static_cast<float>(i1_for_float(x)); }
FACULA_FN float modified_bessel_i0(float x) { return i0(x); }
FACULA_FN float modified_bessel_i1(float x) { return i1(x); }

#define FACULA_IN_DOUBLE(name) \
  FACULA_RARE float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
FACULA_IN_DOUBLE(bessel_j0)
FACULA_IN_DOUBLE(bessel_j1)
FACULA_IN_DOUBLE(bessel_y0)
FACULA_IN_DOUBLE(bessel_y1)
FACULA_IN_DOUBLE(spherical_bessel_j0)
FACULA_IN_DOUBLE(i0e)
FACULA_IN_DOUBLE(i1e)
FACULA_IN_DOUBLE(modified_bessel_k0)
FACULA_IN_DOUBLE(modified_bessel_k1)
FACULA_IN_DOUBLE(scaled_modified_bessel_k0)
FACULA_IN_DOUBLE(scaled_modified_bessel_k1)
FACULA_IN_DOUBLE(airy_ai)
#undef FACULA_IN_DOUBLE

}  // namespace facula::kernels
